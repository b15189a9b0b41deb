-- Store new documents of a block as pending, unless their numbers are taken.
-- KEYS: meta, states, records, shingles, texts. ARGV: identity, state; then for each document:
-- offset, record, shingles, text ("" for none).
-- Returns the places of the documents that were not stored: -1 - place if the number was abandoned,
-- because this process took too long; place if another document has it.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local taken = {}
for at = 3, #ARGV, 4 do
  local offset = ARGV[at]
  local stored = redis.call('HGET', KEYS[2], offset)
  if stored and stored ~= ARGV[2] then
    local place = (at - 3) / 4
    taken[#taken + 1] = stored == 'A' and -1 - place or place
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
