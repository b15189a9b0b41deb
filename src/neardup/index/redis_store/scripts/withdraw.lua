-- Begin to remove a kept document: from now on nothing can become a copy of it.
-- KEYS: meta, states, members, unfinished removals. ARGV: identity, offset, number.
-- Returns its state before, and its members.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local state = redis.call('HGET', KEYS[2], ARGV[2]) or ''
if string.sub(state, 1, 1) == 'K' then
  redis.call('HSET', KEYS[2], ARGV[2], 'R' .. string.sub(state, 2))
  redis.call('HINCRBY', KEYS[1], 'K', -1)
  redis.call('SADD', KEYS[4], ARGV[3])
end
return {state, redis.call('GET', KEYS[3]) or ''}
