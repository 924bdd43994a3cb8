import { systemClock } from '../../../src/core/clock.ts';
import { publishOnce, type PublishEnd, type PublishRequest } from '../../../src/publish/publication.ts';
import type { Target } from '../../../src/publish/target.ts';

/** Publishes once into the target, as a person would; `settings` may be those of a target, or its connectors alone. */
export async function publishNow(
  target: Target,
  settings: Pick<PublishRequest['settings'], 'connectors'> & Partial<PublishRequest['settings']>,
  more: Partial<PublishRequest> = {},
): Promise<PublishEnd> {
  return await publishOnce(target, {
    settings: { name: 'lake', snapshotEveryMs: null, keepMs: null, ...settings },
    isSnapshotAsked: false,
    isNewGenerationAsked: false,
    by: { program: 'connector-sync test', host: 'here' },
    clock: systemClock,
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...more,
  });
}
