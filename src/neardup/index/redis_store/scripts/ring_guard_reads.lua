-- Put before scripts that only read an index on a ring: refuse if the partition is not here.
-- KEYS: the record of the ring; then those of the script. ARGV: partition, its entry; then those of
-- the script.
local ring, partition = table.remove(KEYS, 1), table.remove(ARGV, 1)
if redis.call('HGET', ring, partition) ~= table.remove(ARGV, 1) then
  return redis.error_reply('ELSEWHERE partition ' .. partition)
end
