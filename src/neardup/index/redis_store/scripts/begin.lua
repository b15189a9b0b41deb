-- Store new documents of a block as pending, unless their numbers are taken.
-- KEYS: meta, states, records, shingles, texts. ARGV: identity, state; then for each document:
-- offset, record, shingles, text ("" for none).
-- Returns the places of the documents that were not stored: -1 - place if the number was abandoned,
-- because this process took too long; place if another document has it.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
local offsets, columns, taken = {}, {{}, {}, {}, {}}, {}
for at = 3, #ARGV, 4 do offsets[#offsets + 1] = ARGV[at] end
local stored = redis.call('HMGET', KEYS[2], unpack(offsets))
for place, offset in ipairs(offsets) do
  if stored[place] and stored[place] ~= ARGV[2] then
    taken[#taken + 1] = stored[place] == 'A' and -place or place - 1
  else
    local at = 4 * place - 1
    for column = 1, 4 do
      local fields, value = columns[column], column == 1 and ARGV[2] or ARGV[at + column - 1]
      if value ~= '' then
        fields[#fields + 1] = offset
        fields[#fields + 1] = value
      end
    end
  end
end
for column = 1, 4 do
  if #columns[column] > 0 then redis.call('HSET', KEYS[1 + column], unpack(columns[column])) end
end
return taken
