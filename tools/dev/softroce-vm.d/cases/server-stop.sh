# title: the server is stopped with SIGTERM under load and restarted
# limit: 400
server_comes_back server_stop
