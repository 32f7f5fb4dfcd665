# title: packets towards the server are lost on path 1, later no more
# limit: 400
lose_one_path to-server
