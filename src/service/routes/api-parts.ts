import type { Clock } from '../../core/clock.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { LocalConnectors } from '../local-connectors.ts';
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

/** What the service says of itself. */
export interface Reference {
  /** The OpenAPI document, as JSON. */
  readonly document: string;
  /** The same for people: one page of HTML that needs nothing else. `baseUrl` stands in its examples. */
  page(baseUrl: string): string;
  /** The page has one style sheet and nothing that runs; whatever else came into it would stay dead. */
  readonly contentSecurityPolicy: string;
}
