import type { ConnectorSettings, PublishSettings } from '../../settings/settings.ts';

/** A target of the config, as far as its jobs need it. */
export type ScheduledTarget = Pick<PublishSettings, 'name' | 'when'> & {
  readonly connectors: readonly (Pick<ConnectorSettings, 'name'> & {
    readonly sink: Pick<ConnectorSettings['sink'], 'name'>;
  })[];
};

/**
 * The name of the sink that it is published from; null for a target without connectors, which the config does not
 * allow.
 */
export function sinkOfTarget({ connectors }: Pick<ScheduledTarget, 'connectors'>): string | null {
  return connectors[0]?.sink.name ?? null;
}
