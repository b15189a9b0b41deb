-- Change the states of documents, each only if its state begins as expected.
-- KEYS: meta; the states of a block. ARGV: identity; then for each document: offset, the first bytes
-- that are expected ("" for no state), the new state.
-- The counts of kept documents and of copies are kept up to date.
-- Returns for each document 1, or its state if that is another one.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local reply, counts = {}, {K = 0, C = 0, O = 0}
for at = 2, #ARGV, 3 do
  local offset, expected, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local stored = redis.call('HGET', KEYS[2], offset) or ''
  if stored == value then
    reply[#reply + 1] = 1
  elseif (expected == '' and stored ~= '') or string.sub(stored, 1, #expected) ~= expected then
    reply[#reply + 1] = stored
  else
    redis.call('HSET', KEYS[2], offset, value)
    local former, kind = string.sub(stored, 1, 1), string.sub(value, 1, 1)
    if counts[former] then counts[former] = counts[former] - 1 end
    if counts[kind] then counts[kind] = counts[kind] + 1 end
    reply[#reply + 1] = 1
  end
end
for kind, count in pairs(counts) do
  if count ~= 0 then redis.call('HINCRBY', KEYS[1], kind, count) end
end
return reply
