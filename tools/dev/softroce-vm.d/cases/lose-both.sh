# title: packets of both directions are lost on path 1, then the path is healed
# limit: 400
lose_one_path both
