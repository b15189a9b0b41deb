#!lua flags=allow-oom
-- Move a document from a full bucket to the list of the bucket, unless a removal was begun or ended
-- since the leaders of the bucket were counted, or one of them is about to be removed.
-- KEYS: meta, slice, list, full buckets. ARGV: identity, number of slices, how many removals were
-- begun or ended, the bucket's key, its name, the document's number (4 bytes).
-- Returns the number of slices; nothing is moved if that is another one.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices', 'removals')
if meta[1] ~= ARGV[1] then return -1 end
local slices = tonumber(meta[2])
if meta[2] ~= ARGV[2] or (meta[3] or '0') ~= ARGV[3] then return slices end
local members = redis.call('HGET', KEYS[2], ARGV[4]) or ''

local function place_of(number)
  for place = 1, #members, 5 do
    if string.sub(members, place + 1, place + 4) == number then return place end
  end
end

for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local leaving = string.match(field, '^leaving:(%d+)$')
  if leaving and place_of(struct.pack('>I4', tonumber(leaving))) then return slices end
end
local place = place_of(ARGV[6])
if place then
  redis.call('APPEND', KEYS[3], '\0' .. ARGV[6])
  redis.call('SADD', KEYS[4], ARGV[5])
  members = string.sub(members, 1, place - 1) .. string.sub(members, place + 5)
  if members == '' then
    redis.call('HDEL', KEYS[2], ARGV[4])
    redis.call('HINCRBY', KEYS[1], 'buckets', -1)
  else
    redis.call('HSET', KEYS[2], ARGV[4], members)
  end
end
return slices
