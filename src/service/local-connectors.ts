import { SyncError } from '../core/errors.ts';
import type { Definition } from '../definitions/definition.ts';
import {
  createSampleAccount,
  type SampleAccount,
  type SampleAccountOptions,
} from './sample/sample-account.ts';
import { stableUuid } from './sample/dice.ts';

export interface ServedAccount extends SampleAccountOptions {
  readonly connectorId: string;
  readonly workspace: string;
  /** Served instead of one that is made from the other options: one that goes on changing, for example. */
  readonly account?: SampleAccount;
  /** Stands between the API and the account: changes, hides or fails what it likes. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}

/** A connector that the service answers for. */
export interface LocalConnector {
  readonly id: string;
  readonly workspace: string;
  readonly workspaceId: string;
  readonly definition: Definition;
  readonly account: SampleAccount;
}

/** Throws `SyncError` USAGE when a definition is unknown or two connectors have one id. */
export function openLocalConnectors(
  definitions: ReadonlyMap<string, Definition>,
  accounts: readonly ServedAccount[],
): readonly LocalConnector[] {
  const ids = new Set<string>();
  return accounts.map((options) => {
    const definition = definitions.get(options.definitionName);
    if (definition === undefined) {
      throw usage(
        `Expected one of the definitions ${[...definitions.keys()].join(', ')}, got ${options.definitionName}.`,
      );
    }
    if (ids.has(options.connectorId)) throw usage(`Two connectors have the id ${options.connectorId}.`);
    ids.add(options.connectorId);
    const account = options.account ?? createSampleAccount(options);
    return {
      id: options.connectorId,
      workspace: options.workspace,
      workspaceId: stableUuid('workspace', options.workspace),
      definition,
      account: options.wrap?.(account) ?? account,
    };
  });
}

function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
