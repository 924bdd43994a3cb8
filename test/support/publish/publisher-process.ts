import { systemClock } from '../../../src/core/clock.ts';
import { openFolderStore } from '../../../src/publish/folder-store.ts';
import type { ObjectStore } from '../../../src/publish/object-store.ts';
import { openObjectTarget } from '../../../src/publish/object-target.ts';
import { openRowFileWriters } from '../../../src/publish/row-files.ts';
import { openS3Store } from '../../../src/publish/s3-store.ts';
import { defaultLayout } from '../../../src/settings/publish-file.ts';
import { fakePlace } from './fake-s3.ts';
import { publishNow } from './publish-now.ts';
import { connectorOf } from './publish-world.ts';

/**
 * Publishes the SQLite sink of the first argument into the folder or the fake of S3 (http://...) of the second, once
 * for each message, and answers how it ended.
 */
const [, , path = '', lake = ''] = process.argv;
const signal = new AbortController().signal;
const openStore = async (): Promise<ObjectStore> =>
  lake.startsWith('http:') ? await openS3Store(fakePlace(lake), { signal }) : openFolderStore(lake);
const connectors = [connectorOf({ type: 'sqlite', name: 'main', path, durability: 'normal' })];

async function publish(isSnapshotAsked: boolean): Promise<string> {
  await using target = openObjectTarget({
    store: await openStore(),
    writers: openRowFileWriters(),
    format: 'jsonl',
    layout: defaultLayout,
    clock: systemClock,
  });
  const end = await publishNow(target, { connectors }, { isSnapshotAsked });
  return end.kind;
}

process.on('message', (message: { readonly snapshot: boolean }) => {
  publish(message.snapshot)
    .catch(String)
    .then((end) => process.send?.(end))
    .catch(() => process.exit(1));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
