from fairseq_aiayn.cli.main import main

raise SystemExit(main())
