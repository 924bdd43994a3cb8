import type { Clock } from '../../core/clock.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { LocalConnectors } from '../local-connectors.ts';
import type { Reference } from '../reference/make-reference.ts';
import type { ServiceState } from '../state/service-state.ts';

/** What the endpoints answer from. */
export interface ApiParts {
  readonly state: ServiceState;
  /** By name. */
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly connectors: LocalConnectors;
  readonly reference: Reference;
  readonly clock: Clock;
  /** Added to every execute call, as a distant service would. */
  readonly latencyMs: number;
}
