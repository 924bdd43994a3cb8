import { systemClock } from '../../src/core/clock.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import { publishOnce } from '../../src/publish/publication.ts';
import type { ConnectorSettings, PublishSettings } from '../../src/settings/settings.ts';
import { benchConnector } from '../member-sink.ts';

/** One whole publication of a sink into a folder. */
const [, , file = '', directory = ''] = process.argv;
const definition = loadDefinitions(['config/definitions']).get('email-marketing');
const sink = { type: 'sqlite', name: 'bench', path: file, durability: 'normal' } as const;
const settings: PublishSettings = {
  type: 'files',
  name: 'bench',
  directory,
  format: 'parquet',
  // As far as a publication looks at it.
  connectors: [
    {
      name: benchConnector,
      sink,
      definition,
      entities: definition?.entities,
    } as unknown as ConnectorSettings,
  ],
  when: { kind: 'by-hand' },
  times: 'typed',
  snapshotEveryMs: null,
  keepMs: null,
};
const { signal } = new AbortController();
const startedMs = performance.now();
{
  await using target = await openTarget(settings, { clock: systemClock, signal });
  const end = await publishOnce(target, {
    settings,
    isSnapshotAsked: false,
    isNewGenerationAsked: false,
    by: { program: 'bench', host: 'here' },
    clock: systemClock,
    signal,
    onProgress: () => undefined,
  });
  if (end.kind !== 'published') throw new Error(end.kind);
}
console.log(performance.now() - startedMs);
