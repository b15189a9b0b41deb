#!lua flags=allow-oom
-- Let documents join the cluster of a kept document.
-- KEYS: meta, states and members of the witness. ARGV: identity, offset of the witness, numbers of
-- the documents (5 bytes each). Returns 1, or 0 if the witness is not kept any more.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local state = redis.call('HGET', KEYS[2], ARGV[2]) or ''
if string.sub(state, 1, 1) ~= 'K' then return 0 end
redis.call('APPEND', KEYS[3], ARGV[3])
return 1
