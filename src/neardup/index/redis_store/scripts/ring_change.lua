#!lua flags=allow-oom
-- Change the entry of a partition. KEYS: record; a key that has to be there, or none.
-- ARGV: token of the mover ('' for any process), partition, expected entry, new entry ('' for none).
-- Returns 1, or 0 if the entry is another one or the key is not there.
local found = redis.call('HMGET', KEYS[1], 'mover', ARGV[2])
if ARGV[1] ~= '' and found[1] ~= ARGV[1] then return redis.error_reply('OVERTAKEN') end
local entry = found[2] or ''
if entry == ARGV[4] then return 1 end
if entry ~= ARGV[3] or (KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0) then return 0 end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
return 1
