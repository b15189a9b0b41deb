-- Store another record and another text of a document that is in the index.
-- KEYS: meta, states, records, texts. ARGV: identity, offset, record, text ("" to leave it as it is).
-- Returns 1, or 0 if the document is not in the index.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local kind = string.sub(redis.call('HGET', KEYS[2], ARGV[2]) or '', 1, 1)
if kind ~= 'K' and kind ~= 'C' and kind ~= 'O' then return 0 end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[4], ARGV[2], ARGV[4]) end
return 1
