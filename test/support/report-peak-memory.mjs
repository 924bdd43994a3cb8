import { writeSync } from 'node:fs';

// Loaded before the program: its last line on stderr is the most memory it held, in KiB.
process.on('exit', () => writeSync(2, `\npeak ${process.resourceUsage().maxRSS}\n`));
