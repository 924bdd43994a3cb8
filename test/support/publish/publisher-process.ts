import { systemClock } from '../../../src/core/clock.ts';
import { openFolderStore } from '../../../src/publish/folder-store.ts';
import { openObjectTarget } from '../../../src/publish/object-target.ts';
import { openRowFileWriters } from '../../../src/publish/open-row-file-writers.ts';
import { publishOnce } from '../../../src/publish/publish-once.ts';
import { defaultLayout } from '../../../src/settings/build-publish-place.ts';
import { connectorOf } from './publish-world.ts';

/** Publishes the SQLite sink of the first argument into the folder of the second, once for each message, and answers how it ended. */
const [, , path = '', lake = ''] = process.argv;
const connectors = [connectorOf({ type: 'sqlite', name: 'main', path, durability: 'normal' })];

async function publish(isSnapshotAsked: boolean): Promise<string> {
  await using target = openObjectTarget({
    store: openFolderStore(lake),
    writers: openRowFileWriters(),
    format: 'jsonl',
    layout: defaultLayout,
    clock: systemClock,
  });
  const end = await publishOnce(target, {
    settings: { name: 'lake', connectors, snapshotEveryMs: null, keepMs: null },
    isSnapshotAsked,
    isNewGenerationAsked: false,
    by: { program: 'connector-sync test', host: 'here' },
    clock: systemClock,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  return end.kind === 'published' ? 'published' : end.kind;
}

process.on('message', (message: { readonly snapshot: boolean }) => {
  publish(message.snapshot)
    .catch(String)
    .then((end) => process.send?.(end))
    .catch(() => process.exit(1));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
