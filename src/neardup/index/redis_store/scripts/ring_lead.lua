#!lua flags=allow-oom
-- Begin or end a rebalance on one server. KEYS: record. ARGV: token of the mover, id, epoch, servers,
-- target ('' at the end), number of partitions.
-- Returns 1; 0 if there is a later epoch, or if another mover has begun before this one ends.
local found = redis.call('HMGET', KEYS[1], 'id', 'epoch', 'mover')
if found[1] and found[1] ~= ARGV[2] then return redis.error_reply('FOREIGN is this ring') end
if tonumber(found[2] or '0') > tonumber(ARGV[3]) then return 0 end
if ARGV[5] == '' then
  if found[3] and found[3] ~= ARGV[1] then return 0 end
  redis.call('HDEL', KEYS[1], 'target', 'mover')
else
  redis.call('HSET', KEYS[1], 'target', ARGV[5], 'mover', ARGV[1])
end
redis.call(
  'HSET', KEYS[1], 'id', ARGV[2], 'epoch', ARGV[3], 'servers', ARGV[4], 'partitions', ARGV[6]
)
return 1
