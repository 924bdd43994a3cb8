// Builds the program, and the programs of `npm run bench` in the same form: as one file each, so that a measurement has
// the start that users have.
import { build } from 'esbuild';
import { shared } from '../src/build-program.mjs';

const entryPoints = [
  'first-load-and-resync',
  'member-server',
  'bare-script',
  'bare-postgres',
  'delay-proxy',
  'sync-once',
].map((name) => `bench/${name}.ts`);
await build({ ...shared, entryPoints, outdir: 'dist/.bench', outbase: 'bench' });
