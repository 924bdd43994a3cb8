// npm run test:soak -- 10m: runs workers under faults and checks for lost or duplicate rows and overlapping runs.
// SEED=7 repeats the choices.
import { parseDuration } from '../../src/settings/texts.ts';
import { setup } from '../support/ensure-built.ts';
import { runSoak } from './run-soak.ts';

const [text = '10m'] = process.argv.slice(2);
const durationMs = parseDuration(text);
if (durationMs === null) {
  process.stderr.write(`Expected a duration such as 10m or 90s, got ${text}.\n`);
  process.exit(2);
}
setup();
const options = {
  durationMs,
  seed: Number(process.env['SEED'] ?? Date.now() % 1_000_000),
  connectors: Number(process.env['CONNECTORS'] ?? 50),
  workers: 3,
};
process.stderr.write(`seed ${options.seed}\n`);
const { wrong, figures } = await runSoak({
  ...options,
  tell: (line) => void process.stderr.write(`${line}\n`),
});
console.table(figures);
console.log(wrong.slice(0, 100));
process.exitCode = wrong.length === 0 ? 0 : 1;
