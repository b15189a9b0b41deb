-- Make an index, unless there is one. KEYS: meta. ARGV: fields and values.
if redis.call('HEXISTS', KEYS[1], 'identity') == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
