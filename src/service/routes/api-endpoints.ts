import { checkConnector, checkNewConnector } from './check-connectors.ts';
import { createConnector, deleteConnector, updateConnector } from './change-connectors.ts';
import { definitionEndpoints } from './definition-endpoints.ts';
import type { Endpoint } from './endpoint.ts';
import { execute } from './execute-endpoint.ts';
import { listConnectors } from './list-connectors.ts';
import { referenceEndpoints } from './reference-endpoints.ts';
import { inspectConnector, showConnector } from './show-connectors.ts';
import { tokenEndpoints } from './token-endpoints.ts';
import { workspaceEndpoints } from './workspace-endpoints.ts';

/** All that the service answers, in the order of the reference. */
export const apiEndpoints: readonly Endpoint[] = [
  ...tokenEndpoints,
  ...definitionEndpoints,
  listConnectors,
  createConnector,
  checkNewConnector,
  showConnector,
  updateConnector,
  deleteConnector,
  checkConnector,
  inspectConnector,
  execute,
  ...workspaceEndpoints,
  ...referenceEndpoints,
];
