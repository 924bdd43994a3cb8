import type { ConnectorName } from '../../core/names.ts';
import { ConnectorBusyError } from '../acquire-errors.ts';
import type { Ledger } from './ledger.ts';
import { takeLock, type Lock } from './lock.ts';
import { toSinkError } from './sink-error.ts';

/** The kernel's lock of one connector in this sink. Throws `ConnectorBusyError`, which names the holder. */
export function lockConnector(ledger: Ledger, connector: ConnectorName): Lock {
  let lock: Lock | null;
  try {
    lock = takeLock(`${ledger.file}.${connector}.lock`);
  } catch (error) {
    throw toSinkError(error, ledger.file);
  }
  if (lock === null) throw new ConnectorBusyError(connector, ledger.connectors.holder(connector));
  return lock;
}
