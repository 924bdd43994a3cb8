import { appendFileSync } from 'node:fs';
import { systemClock } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import { openNotifier } from '../../src/notify/open-notifier.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';

/**
 * A process whose publication fails and goes well in turn, until it is killed; or, with `drain`, one that only sends
 * what waits. It notes each end that was stored in a file: `failed` or `recovered` by what must have been sent.
 */
const [file = '', acknowledged = '', mode = ''] = process.argv.slice(2);
const settings = loadSettings({ file, env: {} });
const lake = settings.publish.get('lake');
if (lake === undefined) throw new Error('the config has no target');
const notes: string[] = [];
const notifier = await openNotifier({ settings, clock: systemClock, note: (line) => notes.push(line) });
const boom = new SyncError('the bucket is not there', { code: 'TARGET_FAILED', recovery: 'stop' });
process.send?.('ready');
const rounds = mode === 'drain' ? 0 : 1_000;
for (let round = 0; round < rounds; round += 1) {
  await notifier.publicationEnded(lake, boom);
  appendFileSync(acknowledged, 'failed\n');
  await notifier.publicationEnded(lake, null);
  appendFileSync(acknowledged, 'recovered\n');
  // The messages are sent by the same process, which has to get a turn.
  await systemClock.sleep(10);
}
await notifier.publicationEnded(lake, null);
await notifier[Symbol.asyncDispose]();
process.disconnect?.();
