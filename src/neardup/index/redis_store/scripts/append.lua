-- Append documents to buckets, and return what each bucket had before.
-- KEYS: meta; then slices. ARGV: identity, number of slices, entries.
-- An entry has 2 bytes for the place of its slice in KEYS after meta (from 0), 8 for the bucket's
-- key, 5 for the document's number. Appending twice changes nothing.
-- Returns the number of slices, the floor, the number of buckets; then place of entry and members
-- of each bucket that had some. Only the number of slices if that is another one.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices', 'floor')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] then return {tonumber(meta[2])} end
local entries, created = ARGV[3], 0
local reply = {tonumber(meta[2]), tonumber(meta[3] or 0), 0}
for at = 1, #entries, 15 do
  local high, low = string.byte(entries, at, at + 1)
  local slice = KEYS[high * 256 + low + 2]
  local key, number = string.sub(entries, at + 2, at + 9), string.sub(entries, at + 10, at + 14)
  if redis.call('HSETNX', slice, key, number) == 1 then
    created = created + 1
  else
    local members, present = redis.call('HGET', slice, key), false
    for place = 1, #members, 5 do
      present = present or string.sub(members, place, place + 4) == number
    end
    if not present then redis.call('HSET', slice, key, members .. number) end
    reply[#reply + 1] = (at - 1) / 15
    reply[#reply + 1] = members
  end
end
reply[3] = redis.call('HINCRBY', KEYS[1], 'buckets', created)
return reply
