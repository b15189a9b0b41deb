#!lua flags=allow-oom
-- Begin to remove a kept document: from now on nothing can become a copy of it.
-- KEYS: meta, states, unfinished removals. ARGV: identity, offset, number, token of the removal.
-- Returns 1 if this removal has begun, now or before its command was repeated; otherwise 0.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local state = redis.call('HGET', KEYS[2], ARGV[2]) or ''
if state == 'R' .. ARGV[4] then return 1 end
if string.sub(state, 1, 1) ~= 'K' then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], 'R' .. ARGV[4])
redis.call('HINCRBY', KEYS[1], 'K', -1)
redis.call('SADD', KEYS[3], ARGV[3])
return 1
