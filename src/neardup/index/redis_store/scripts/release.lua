#!lua flags=allow-oom
-- Forget that a document was about to be removed. KEYS: meta. ARGV: identity, the document.
-- Who counted it as a leader before does not move others from its buckets any more.
if redis.call('HGET', KEYS[1], 'identity') ~= ARGV[1] then return -1 end
redis.call('HINCRBY', KEYS[1], 'removals', 1)
return redis.call('HDEL', KEYS[1], 'leaving:' .. ARGV[2])
