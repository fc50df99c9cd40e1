-- The end of release.lua and evict.lua: the hold of number ARGV[1] has ended, and there may be a line.

serve(math.max(tonumber(counter[1] or '0'), tonumber(ARGV[1])))
return {'freed'}
