// Started by orphaned-sync.test.ts: keeps a store below a folder whose sync waits for a page that never comes, and says
// when it does.
import { randomBytes } from 'node:crypto';
import { systemClock } from '../../../src/core/clock.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { openContextStores } from '../../../src/service/store/open-context-stores.ts';

const stores = openContextStores({
  folder: process.argv[2],
  clock: systemClock,
  refreshEveryMs: null,
  search: { deadlineMs: 1000, processes: 1 },
  cursorKey: randomBytes(32),
});
const list = async () => {
  console.log('asked');
  await new Promise(() => setInterval(() => {}, 1000));
};
const definition = loadDefinitions([builtInDefinitionsFolder]).get('email-marketing');
stores.keep({ connectorId: 'one', definition, provider: { list, get: list, download: list } });
