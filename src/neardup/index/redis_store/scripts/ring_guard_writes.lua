-- Put before scripts that write to an index on a ring: refuse if the partition is not here, and for
-- the moment in which it is handed over. While it is copied, remember the keys that may be written.
-- KEYS: the record of the ring; then those of the script. ARGV: partition, its entry; then those of
-- the script.
local ring, partition = table.remove(KEYS, 1), table.remove(ARGV, 1)
local found = redis.call('HMGET', ring, partition, 'moving:' .. partition)
if found[1] ~= table.remove(ARGV, 1) then
  return redis.error_reply('ELSEWHERE partition ' .. partition)
end
if found[2] then
  if redis.call('EXISTS', ring .. ':frozen:' .. partition) == 1 then
    return redis.error_reply('FROZEN partition ' .. partition)
  end
  -- Lua passes a few thousand arguments at most.
  for at = 1, #KEYS, 1000 do
    local last = math.min(at + 999, #KEYS)
    redis.call('SADD', ring .. ':touched:' .. partition, unpack(KEYS, at, last))
  end
end
