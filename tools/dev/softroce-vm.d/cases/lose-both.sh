# title: packets of both directions are lost on path 1, later no more
# limit: 400
lose_one_path both
