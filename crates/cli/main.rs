//! The `coalescope` command: what was typed → validated inputs → run → report.
//!
//! It names all crates and holds no arithmetic of its own.

mod args;
mod commands;
mod folder;
mod output;
mod progress;
mod selection;
mod shipped;

use args::{Cli, Color, Command};
use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    match run(&cli.command) {
        Ok(code) => code,
        // The reader has what it wanted. What would have come is not known, so this is no
        // success, but what a shell says of a program that a closed pipe ends.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(141),
        Err(error) => {
            let red = anstyle::AnsiColor::Red.on_default().bold();
            anstream::eprintln!("{red}error{red:#}: {error:#}");
            commands::bad_input()
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Sim(args) => commands::sim::run(args),
        Command::Warp(args) => commands::warp::run(args),
        Command::Explain(args) => commands::explain::run(args),
        Command::Suggest(args) => commands::suggest::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Diff(args) => commands::diff::run(args),
        Command::Emit(args) => commands::emit::run(args),
        Command::Measure(args) => commands::measure::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Doctor { json } => commands::doctor::run(*json),
        Command::Lab(args) => commands::lab::run(args),
        Command::List => commands::list::run(),
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&scenario::json_schema())?;
            writeln!(anstream::stdout().lock(), "{schema}")?;
            Ok(commands::GOOD)
        }
        Command::Completions { shell } => {
            // It panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "coalescope", &mut script);
            std::io::stdout().lock().write_all(&script)?;
            Ok(commands::GOOD)
        }
        Command::Man { command } => man(command.as_deref()),
    }
}

/// The manual page of the program or of one of its commands.
fn man(command: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut cli = Cli::command();
    // So that the pages say the whole `coalescope check`.
    cli.build();
    let page = match command {
        None => cli,
        Some(name) => match cli.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                let known = cli.get_subcommands().map(clap::Command::get_name);
                let help = scenario::diagnostic::known_names(name, "commands", known);
                selection::Complaints::default()
                    .message(&format!("there is no command `{name}`"), &help);
                return Ok(commands::bad_input());
            }
        },
    };
    clap_mangen::Man::new(page).render(&mut std::io::stdout().lock())?;
    Ok(commands::GOOD)
}
