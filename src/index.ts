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
export { type Agent, defineAgent } from './agent/define-agent.ts';
export type { Task } from './agent/task.ts';
export type { Config } from './cli/config.ts';
export { defineConfig } from './cli/define-config.ts';
