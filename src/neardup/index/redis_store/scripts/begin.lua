-- Store new documents of a block as pending, unless their numbers are taken.
-- KEYS: meta, states, records, shingles, texts. ARGV: identity, state; then for each document:
-- offset, record, shingles, text ("" for none).
-- Returns the places of the documents whose numbers are taken.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local taken = {}
for at = 3, #ARGV, 4 do
  local offset = ARGV[at]
  local stored = redis.call('HGET', KEYS[2], offset)
  if stored and stored ~= ARGV[2] then
    taken[#taken + 1] = (at - 3) / 4
  else
    redis.call('HSET', KEYS[2], offset, ARGV[2])
    for column = 1, 3 do
      if ARGV[at + column] ~= '' then
        redis.call('HSET', KEYS[2 + column], offset, ARGV[at + column])
      end
    end
  end
end
return taken
