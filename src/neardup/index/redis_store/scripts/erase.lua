#!lua flags=allow-oom
-- Erase what is stored of a document that was abandoned or removed, but for its last state.
-- KEYS: meta, unfinished removals, states, records, shingles, texts, members. ARGV: identity, offset,
-- number, state: A if it was abandoned, D if it was removed. Returns 1, or 0 if it was neither.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local kind = string.sub(redis.call('HGET', KEYS[3], ARGV[2]) or '', 1, 1)
if kind ~= ARGV[4] and not (kind == 'R' and ARGV[4] == 'D') then return 0 end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[4])
for column = 4, 6 do redis.call('HDEL', KEYS[column], ARGV[2]) end
redis.call('DEL', KEYS[7])
redis.call('SREM', KEYS[2], ARGV[3])
return 1
