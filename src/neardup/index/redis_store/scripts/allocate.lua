-- Take a range of numbers. KEYS: meta, counter. ARGV: identity, how many, least first number.
-- Returns the last number of the range.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last + 1 < tonumber(ARGV[3]) then redis.call('SET', KEYS[2], tonumber(ARGV[3]) - 1) end
return redis.call('INCRBY', KEYS[2], ARGV[2])
