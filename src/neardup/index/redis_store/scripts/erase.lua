-- Erase what is stored of a document, but for a last state.
-- KEYS: meta, unfinished removals, states, records, shingles, texts, members. ARGV: identity, offset,
-- number, state.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[4])
for column = 4, 6 do redis.call('HDEL', KEYS[column], ARGV[2]) end
redis.call('DEL', KEYS[7])
redis.call('SREM', KEYS[2], ARGV[3])
return 1
