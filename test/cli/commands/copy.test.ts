import { expect, it } from 'vitest';
import type { CopyEnd } from '../../../src/app/copy-connector.ts';
import { copiedText, copyEndText, type EndedCopy } from '../../../src/cli/commands/copy.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { ConnectorSettings, SinkSettings } from '../../../src/settings/settings.ts';

function copied(name: string, sink: string): EndedCopy {
  const connector = { name, sink: { name: sink }, downloads: null } as unknown as ConnectorSettings;
  const end: CopyEnd = {
    connector: name as ConnectorName,
    state: 'begun',
    rows: 10,
    deleted: 0,
    entities: 2,
    withoutVersions: name === 'two' ? ['lists' as EntityName] : [],
    newestSeq: 17,
    toSink: 'id-of-pg',
    isPaused: false,
  };
  const [from, to] = ['main', 'pg'].map((one) => ({ name: one }) as SinkSettings);
  if (from === undefined || to === undefined) throw new TypeError('There should be two sinks');
  return { connector, end, from, to, program: 'cs' };
}

it('says what holds for all copied connectors once', () => {
  const copies = [copied('one', 'main'), copied('two', 'main'), copied('three', 'pg')];
  expect(copies.map((copy) => copiedText(copy).length)).toEqual([1, 2, 1]);
  expect(copiedText(copied('two', 'main'))[1]).toContain('versions of rows (history) of lists are not in pg');
  expect(copyEndText(copies)).toEqual([
    'Change numbers (_seq) are the same in pg: consumers continue with the number they have, and see a new sink id (id-of-pg).',
    'Next: set "sink: pg" for one, two, three in the config, and restart the workers. Until then syncs are refused (exit code 2).',
    'What is in main stays as it was, and is not synced there again. To continue there instead: cs copy --from main --reopen one two three',
  ]);
  expect(copyEndText([])).toEqual([]);
});
