-- Count the tokens that a client of services has taken. KEYS: count. ARGV: how many more.
-- Returns how many all services have given it; a minute without one, and it is forgotten.
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 60)
return count
