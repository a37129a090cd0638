#!/bin/sh
# nginx with Lua, as one process: `nginx.sh http|json address port`.
home=$(dirname "$0")/nginx-$$ # goes away with the directory of the scripts
mkdir "$home" || exit 1
ln -s /usr/share/nginx/modules "$home/modules" # where the files below look for them
cat > "$home/nginx.conf" <<END
include /etc/nginx/modules-enabled/*.conf;
daemon off;
master_process off;
pid $home/pid;
error_log stderr error;
worker_rlimit_nofile 20000;
events { worker_connections 15000; }
http {
  access_log off;
  client_body_temp_path $home/body;
  proxy_temp_path $home/proxy;
  fastcgi_temp_path $home/fastcgi;
  uwsgi_temp_path $home/uwsgi;
  scgi_temp_path $home/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 3600;
  server {
    listen $2:$3 backlog=1024;
    client_header_timeout 10;
    location ~ ^/items/([^/]+)\$ {
      content_by_lua_block {
        local body = ('{"id":"%s","name":"a thing"}'):format(ngx.var[1])
        ngx.header["Content-Type"] = "application/json"
        ngx.header["Content-Length"] = #body
        ngx.print(body)
      }
    }
    location / {
      content_by_lua_block {
        ngx.header["Content-Type"] = "text/plain"
        ngx.header["Content-Length"] = 14
        ngx.print("Hello, world!\n")
      }
    }
  }
}
END
exec nginx -p "$home" -c "$home/nginx.conf"
