# Made from the text of baton --help by: cargo xtask generate

complete -c baton -s e -x -d 'run the string \'stat\''
complete -c baton -s l -x -d 'require \'mod\' into the global \'mod\''
complete -c baton -s i -d 'enter the interactive mode after the script'
complete -c baton -s v -d 'show Lua\'s version'
complete -c baton -s E -d 'ignore the environment variables below'
complete -c baton -s W -d 'turn warnings on'
complete -c baton -l simulate -x -d 'run in virtual time: sleeps cost nothing, and chance decides which process runs when; the same seed gives the same run. With a range (1-1000) a run for each seed, up to the first that fails'
complete -c baton -l help -d 'show this text'
complete -c baton -l version -d 'show Lua\'s and Baton\'s versions'
