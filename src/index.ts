export {
  type ActionContext,
  type ActionDefinition,
  type ActionKind,
  type ActionOutcome,
  defineAction,
  NoEffect,
  type Precondition,
  type ReadBack,
  type Rollback,
  UndoRefused,
} from './action/define-action.ts';
export { ACTION_KEY_TABLE } from './action/kinds/action-key-table.ts';
export { emailAction } from './action/kinds/email.ts';
export { fileAction } from './action/kinds/file.ts';
export { httpAction } from './action/kinds/http.ts';
export { postgresAction } from './action/kinds/postgres.ts';
export { list, named, type Sql, sql } from './action/kinds/sql.ts';
export { type Agent, defineAgent } from './agent/define-agent.ts';
export type { Task } from './agent/task.ts';
export type { Config } from './cli/config.ts';
export { defineConfig } from './cli/define-config.ts';
