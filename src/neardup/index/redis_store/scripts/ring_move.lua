-- Carry out a command of the mover, unless another one has begun or the partition has another entry.
-- KEYS: record, the key of the command. ARGV: token of the mover, partition, its entry ('' for none);
-- then the command.
local found = redis.call('HMGET', KEYS[1], 'mover', ARGV[2])
if found[1] ~= ARGV[1] or (found[2] or '') ~= ARGV[3] then
  return redis.error_reply('OVERTAKEN')
end
return redis.call(unpack(ARGV, 4))
