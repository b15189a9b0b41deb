#!lua flags=allow-oom
-- Append documents to buckets, and return what each bucket had before.
-- KEYS: meta; then slices. ARGV: identity, number of slices, entries.
-- An entry has 2 bytes for the place of its slice in KEYS after meta (from 0), 8 for the bucket's
-- key, 1 for the turn, 4 for the document's number. A bucket has one entry of a document, that of
-- the last turn. Appending twice changes nothing.
-- Returns the number of slices, the floor, the number of buckets, how many removals were begun or
-- ended; then
-- place of entry and members of each bucket that had some. Only the number of slices if that is
-- another one.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices', 'floor', 'removals')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] then return {tonumber(meta[2])} end
local entries, created = ARGV[3], 0
local reply = {tonumber(meta[2]), tonumber(meta[3] or 0), 0, tonumber(meta[4] or 0)}
for at = 1, #entries, 15 do
  local place, key, member = struct.unpack('>I2c8c5', entries, at)
  local slice = KEYS[place + 2]
  if redis.call('HSETNX', slice, key, member) == 1 then
    created = created + 1
  else
    local members, number = redis.call('HGET', slice, key), string.sub(member, 2)
    local found
    for place = 1, #members, 5 do
      if string.sub(members, place + 1, place + 4) == number then
        found = place
        break
      end
    end
    if not found then
      redis.call('HSET', slice, key, members .. member)
    elseif string.byte(members, found) < string.byte(member) then
      local before, after = string.sub(members, 1, found - 1), string.sub(members, found + 5)
      redis.call('HSET', slice, key, before .. member .. after)
    end
    reply[#reply + 1] = (at - 1) / 15
    reply[#reply + 1] = members
  end
end
reply[3] = redis.call('HINCRBY', KEYS[1], 'buckets', created)
return reply
