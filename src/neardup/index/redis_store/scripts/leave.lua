#!lua flags=allow-oom
-- Take documents out of buckets, unless their entry there is of a later turn.
-- KEYS: meta; then slices. ARGV: identity, number of slices, floor, entries as for append.
-- No number below the floor can be appended any more without being given up: its bucket may have
-- lost a member that it had to meet. Returns the number of slices.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices', 'floor')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] then return tonumber(meta[2]) end
if tonumber(ARGV[3]) > tonumber(meta[3] or 0) then
  redis.call('HSET', KEYS[1], 'floor', ARGV[3])
end
local entries, emptied = ARGV[4], 0
for at = 1, #entries, 15 do
  local place, key, turn, number = struct.unpack('>I2c8Bc4', entries, at)
  local slice = KEYS[place + 2]
  local members = redis.call('HGET', slice, key) or ''
  for place = 1, #members, 5 do
    if string.sub(members, place + 1, place + 4) == number then
      if string.byte(members, place) <= turn then
        members = string.sub(members, 1, place - 1) .. string.sub(members, place + 5)
        if members == '' then
          redis.call('HDEL', slice, key)
          emptied = emptied + 1
        else
          redis.call('HSET', slice, key, members)
        end
      end
      break
    end
  end
end
if emptied > 0 then redis.call('HINCRBY', KEYS[1], 'buckets', -emptied) end
return tonumber(meta[2])
