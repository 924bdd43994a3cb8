// Started by call-gate.test.ts: holds the place of one call of an account, and says when it does.
import { systemClock } from '../../src/core/clock.ts';
import { openMachineSlots } from '../../src/upstream/call-gate.ts';

const [, , folder, account, concurrency] = process.argv;
const slots = openMachineSlots(systemClock, folder)(account, { concurrency: Number(concurrency) });
await slots.enter(new AbortController().signal);
console.log('held');
setInterval(() => {}, 1000);
