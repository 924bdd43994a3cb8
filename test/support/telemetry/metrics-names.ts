import type { SampledConnector } from '../../../src/telemetry/metrics.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
  type RunId,
} from '../../../src/core/names.ts';

export function connector(name: string): ConnectorName {
  if (!isConnectorName(name)) throw new Error(`${name} is no connector's name`);
  return name;
}

export function entity(name: string): EntityName {
  if (!isDeclaredName(name)) throw new Error(`${name} is no entity's name`);
  return name;
}

export const run = '20260501T120000000Z-0a1b2c3d' as RunId;

/** A connector of which nothing is known, or what a test says. */
export function sampled(name: ConnectorName, part: Partial<SampledConnector> = {}): SampledConnector {
  const nothing = { freshness: [], missing: [], partMissing: [], unconfirmed: [] };
  return { name, words: new Set(), ...nothing, ...part };
}
