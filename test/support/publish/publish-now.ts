import { systemClock } from '../../../src/core/clock.ts';
import { publishOnce, type PublishEnd, type PublishRequest } from '../../../src/publish/publication.ts';
import type { Target } from '../../../src/publish/target.ts';
import type { ConnectorSettings } from '../../../src/settings/settings.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import { members, membersTable, news, opensTable } from '../../contracts/sink/fixture.ts';

/** Publishes once into the target, as a person would; `settings` may be those of a target, or its connectors alone. */
export async function publishNow(
  target: Target,
  settings: Pick<PublishRequest['settings'], 'connectors'> & Partial<PublishRequest['settings']>,
  more: Partial<PublishRequest> = {},
): Promise<PublishEnd> {
  return await publishOnce(target, {
    settings: { name: 'lake', times: 'text', snapshotEveryMs: null, keepMs: null, ...settings },
    isSnapshotAsked: false,
    isNewGenerationAsked: false,
    by: { program: 'connector-sync test', host: 'here' },
    clock: systemClock,
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...more,
  });
}

/** As far as a publication looks at it. */
export function connectorOf(
  sink: SinkOptions,
  history: { readonly keepMs: number | null } | null = null,
): ConnectorSettings {
  const entities = new Map([
    [
      members,
      {
        table: membersTable,
        explodedTable: opensTable,
        derived: [],
        description: null,
        descriptions: new Map(),
        parents: [],
        key: membersTable.key,
        explode: null,
        incremental: null,
        history,
      },
    ],
  ]);
  return { name: news, sink, entities, definition: { entities } } as unknown as ConnectorSettings;
}
