// Has one search process that waits for its next search, and one in the middle of a statement without end; says which
// that is.
import { once } from 'node:events';
import { systemClock } from '../../../src/core/clock.ts';
import { openSearchProcesses } from '../../../src/search/process/open-search-processes.ts';

const [{ odd, call }] = await once(process, 'message');
const { signal } = new AbortController();
const cursorKey = Buffer.alloc(32);
const options = { processes: 1, deadlineMs: 60_000, maxWaiting: 1, cursorKey, clock: systemClock };
await openSearchProcesses(options).search(call, signal);
const hanging = openSearchProcesses({ ...options, entry: new URL(odd) });
const { data } = await hanging.search({ ...call, params: { act: 'answer' } }, signal);
void hanging.search({ ...call, params: { act: 'hang' } }, signal);
process.send({ pid: data[0].pid });
